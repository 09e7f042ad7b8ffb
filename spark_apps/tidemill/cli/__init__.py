"""The command line, with one file per group of commands. Heavy modules are imported only when needed."""
