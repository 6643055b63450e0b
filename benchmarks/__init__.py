"""What is measured: estimates, intervals, times, memory."""
