// Empty: lets child.go declare functions without a body (go:linkname).
