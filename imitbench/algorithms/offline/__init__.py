"""Methods that learn offline, from demonstrations and a supplement of mixed quality."""
