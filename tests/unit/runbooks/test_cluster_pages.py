"""Pages about a cluster, restricted to Tidemill's part: a driver reports the error and then continues.

The causes of these errors are tested on a real cluster in `tests/e2e`, and with the API's answers in
`tests/unit/engine` and `tests/unit/control`.
"""

from __future__ import annotations

from tests.support.patient import Patient
from tests.support.runbook_acts import batch, ended, goes_on_by_itself, mended, waits
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, each_story

STATUS_AS_JSON = "tidemill status PIPELINE --json"
START = "tidemill start PIPELINE"
RESTART = "tidemill restart PIPELINE"


STORIES = [
    Story(
        "executors-missing",
        "tasks wait and no executor comes",
        waits("TIDE-K8S-022"),
        ("TIDE-K8S-022",),
        ["tidemill status", STATUS_AS_JSON, goes_on_by_itself],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    Story(
        "executors-missing",
        "the image was wrong",
        waits("TIDE-K8S-022"),
        ("TIDE-K8S-022",),
        [mended, RESTART],
        seen=Patient.told_by_status,
    ),
    Story(
        "executors-missing",
        "the API server is away",
        waits("TIDE-K8S-020"),
        ("TIDE-K8S-020",),
        [goes_on_by_itself],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    *(
        Story(
            "executors-missing",
            f"the driver ended with {error}",
            ended(error, exit_code),
            (error,),
            [mended, START],
            seen=Patient.told_by_status,
            over=batch(2),
        )
        for error, exit_code in (("TIDE-K8S-021", 64), ("TIDE-K8S-023", 69))
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
