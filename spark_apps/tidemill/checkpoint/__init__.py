"""What lies below `state/<pipeline>/`: generations, epochs, holds, receipts; gate and verbs. No JVM."""
