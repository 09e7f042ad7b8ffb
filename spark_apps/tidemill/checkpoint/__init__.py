"""What lies below `state/<pipeline>/`: generations, epochs, holds, receipts, status; the gate and the verbs. No JVM."""
