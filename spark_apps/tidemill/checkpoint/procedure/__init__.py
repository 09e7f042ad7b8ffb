"""How a verb changes anything: plan, hold, journal, steps that may be repeated, trash, audit."""
