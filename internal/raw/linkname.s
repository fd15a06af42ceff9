// SPDX-License-Identifier: Apache-2.0

// Empty: lets raw.go declare functions without a body (go:linkname).
