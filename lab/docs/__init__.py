"""The documentation: generates the reference, runs the output blocks, and checks the links."""
