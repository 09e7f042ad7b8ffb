"""How far back a pipeline can be rewound, and what must be kept for that."""
