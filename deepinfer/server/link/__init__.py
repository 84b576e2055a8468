"""The upstream's side of the native form: gateways' requests over one connection, without HTTP for each."""
