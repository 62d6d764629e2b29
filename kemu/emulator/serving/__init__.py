"""Parts of a served cluster without sockets: the bytes of records, and the translation of requests and answers."""
