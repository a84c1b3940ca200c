"""The wire: frames, WebSocket, REST, who may connect, problems. No rule of the tree lives here."""
