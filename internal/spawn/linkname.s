// SPDX-License-Identifier: Apache-2.0

// Empty: lets child.go declare functions without a body (go:linkname).
