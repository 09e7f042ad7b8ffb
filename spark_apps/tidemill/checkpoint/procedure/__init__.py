"""The parts of every change by an operation: plan, hold, journal, repeatable steps, trash and audit."""
