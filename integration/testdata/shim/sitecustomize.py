import tare_trace_shim  # noqa: F401
