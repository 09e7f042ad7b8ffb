"""Planning of a backfill, a bounded range of the past, without Spark. The engine carries a plan out."""
