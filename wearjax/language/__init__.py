"""Language models: endpoint client with answer cache, renderings, sandboxed Python, and the zero-shot probes."""
