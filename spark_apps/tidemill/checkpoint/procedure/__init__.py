"""How verbs change anything: plan, hold, journal, repeatable steps, trash and audit."""
