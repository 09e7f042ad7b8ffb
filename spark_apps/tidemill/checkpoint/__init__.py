"""What lies below `state/<pipeline>/`: generations, epochs, receipts, status and the gate. No JVM."""
