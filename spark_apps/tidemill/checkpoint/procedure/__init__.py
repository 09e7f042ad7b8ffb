"""The parts of every change by a verb: plan, hold, journal, repeatable steps, trash and audit."""
