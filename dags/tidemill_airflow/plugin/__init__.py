"""The Streams page: an Airflow plugin with one page and one JSON API over one snapshot.

streams_plugin    the class that Airflow loads: the app, its navigation entry, and a tab of each DAG
app               page and API as one FastAPI app, mounted at /tidemill
access            permissions to see a pipeline, to act on it, and to read records
routes, *_parts   the API; `answers` and `graph_answers` are its models
timeline          generations, operations and backups
storage_gate      limit of requests that read storage at the same time
kept_answers      cache of expensive answers, valid until the table has a new version
graph             dependencies and staleness. Pure; `due` has the time by which a scheduled pipeline should
read
snapshot          state of all pipelines, read in the background and never for a request
overview          state of a pipeline -> row of the overview. Pure; `data_loss` has possible data loss
static/           the page: plain JavaScript modules, no build step; vendor/ is uPlot as published
"""
