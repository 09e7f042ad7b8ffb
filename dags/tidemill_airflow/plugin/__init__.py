"""The Streams page: an Airflow plugin with one page, one JSON API and one snapshot behind them.

streams_plugin    what Airflow loads: the app, its place in the navigation, and a tab of each DAG
app               page and API as one FastAPI app, mounted at /tidemill
access            who may see a pipeline, act on it, and look into records
routes, *_parts   the API; `answers` and `graph_answers` are its models
timeline          generations, verbs and backups
storage_gate      how many requests may read storage at once
kept_answers      answers that need much of storage, kept until that has another version
graph             what is made of what, and what is stale. Pure; `due` by when a schedule lets a pipeline read
snapshot          what all pipelines are like, read in the background, never for a request
overview          state of a pipeline -> row of the overview. Pure; `data_loss` what may be lost
static/           the page: plain JavaScript modules, no build step; vendor/ is uPlot as published
"""
