"""The command line: one file per group of verbs. Nothing heavy is imported before a verb needs it."""
