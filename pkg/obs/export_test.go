package obs

import "net"

// Unwatched is what Serve makes of its listener, for servers with limits of their own.
func Unwatched(l net.Listener) net.Listener { return unwatched{l} }
