"""The gate: may this pipeline start from this checkpoint, given what its tables and its source say?

Facts are gathered by `gather_facts` (a broker is asked by `tidemill.sources.topic_facts`), the decision is
the pure function `examine`; `check` turns the first reason into a refusal. Each says what Spark would have
done and which verb repairs it.

| question | file |
|---|---|
| G1 is it this pipeline's checkpoint, and the only generation that writes | `identity.py` |
| G2 G3 are its files whole and do they belong together | `integrity.py` |
| G4 do checkpoint, ledger and transactions of all tables agree | `agreement.py` |
| G5 can the next batch load its state | `state.py` |
| G6 does the source still have what comes next | `source.py` |
| G7 is someone else at it | `alive.py` |
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
