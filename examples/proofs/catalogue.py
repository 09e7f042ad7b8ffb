"""All examples, in the order of the documents."""

from __future__ import annotations

from examples.proofs import guide_patterns, guide_sinks, guide_sources, lecture, notebook, slides, talk

EXAMPLES = [
    *slides.EXAMPLES,
    *lecture.EXAMPLES,
    *notebook.EXAMPLES,
    *guide_sources.EXAMPLES,
    *guide_sinks.EXAMPLES,
    *guide_patterns.EXAMPLES,
    *talk.EXAMPLES,
]
