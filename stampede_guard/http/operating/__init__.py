"""What operators and programs ask of stored responses, beside requests."""
