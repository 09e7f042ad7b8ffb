"""Decide if a pipeline may start, from the facts of its checkpoint, its tables and its source.

`gather_facts` reads the facts from storage, and `tidemill.sources.topic_facts` reads them from a broker. The
pure function `examine` decides, and `check` raises an error for the first reason against the start. Each
finding says what Spark would have done and which operation repairs it.

| question | file |
|---|---|
| G1 does the checkpoint belong to this pipeline, and does only this generation write | `identity.py` |
| G2 G3 are its files whole, and do they belong together | `integrity.py` |
| G4 do the checkpoint, the ledger and the transactions of all tables agree | `agreement.py` |
| G5 can the next batch load its state | `state.py` |
| G6 does the source still have the next records | `source.py` |
| G7 is another driver or operation at work | `alive.py` |
| changes of the declaration | `changes.py` |
"""

from tidemill.checkpoint.gate.decide import check, check_agreement, check_holds, damages_of, examine
from tidemill.checkpoint.gate.facts import CheckpointFacts, TableFacts, TopicFacts
from tidemill.checkpoint.gate.gather import gather_alone, gather_cut, gather_facts, gather_settled

__all__ = [
    "CheckpointFacts",
    "TableFacts",
    "TopicFacts",
    "check",
    "check_agreement",
    "check_holds",
    "damages_of",
    "examine",
    "gather_alone",
    "gather_cut",
    "gather_facts",
    "gather_settled",
]
