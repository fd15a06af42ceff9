// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package raw

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"
)

// content is a file of settings. A longer one is for main.
var content [4096]byte

// SetsNothing reports whether there is no such file, or whether it has comments, blank lines and empty tables
// alone. It is false for a file that main would refuse, for main reports that. path ends with 0.
func SetsNothing(path uintptr) bool {
	here := unix.AT_FDCWD
	// O_NONBLOCK: a FIFO must not delay a server
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), path, flags, 0, 0, 0)
	if errno != 0 {
		return errno == unix.ENOENT || errno == unix.ENOTDIR
	}
	text, ok := readSettings(fd)
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0) // nothing was written
	return ok && hasNoSetting(text)
}

// readSettings reads a file that is short, and that main would read: see checkOwner of package settings.
func readSettings(fd uintptr) (text string, ok bool) {
	var st unix.Statx_t
	const wanted = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID
	noPath := uintptr(unsafe.Pointer(unsafe.StringData("\x00")))
	to := uintptr(unsafe.Pointer(&st))
	_, _, errno := unix.RawSyscall6(unix.SYS_STATX, fd, noPath, unix.AT_EMPTY_PATH, wanted, to, 0)
	isRegular := st.Mode&unix.S_IFMT == unix.S_IFREG
	isTrusted := (st.Uid == 0 || int(st.Uid) == unix.Geteuid()) && st.Mode&unix.S_IWOTH == 0
	if errno != 0 || !isRegular || !isTrusted {
		return "", false
	}
	to = uintptr(unsafe.Pointer(&content))
	size, _, errno := unix.RawSyscall(unix.SYS_READ, fd, to, unsafe.Sizeof(content))
	if errno != 0 || size >= unsafe.Sizeof(content) {
		return "", false
	}
	return unsafe.String(&content[0], size), true
}

// hasNoSetting reports whether a text is TOML without a key.
func hasNoSetting(text string) bool {
	for more := true; more; {
		var line string
		line, text, more = strings.Cut(text, "\n")
		if more {
			line = strings.TrimSuffix(line, "\r")
		}
		before, _, _ := strings.Cut(line, "#")
		table := strings.Trim(before, " \t")
		if table != "" && table != "[defaults]" && !isServerTable(table) || !isText(line) {
			return false
		}
	}
	return true
}

// isServerTable reports whether a line begins a table of a server, in the usual forms.
func isServerTable(line string) bool {
	name, found := strings.CutPrefix(line, `[server."`)
	name, ends := strings.CutSuffix(name, `"]`)
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	return found && ends && name != "" && strings.Trim(name, plain+"*?") == ""
}

// isText reports whether TOML allows the characters in a comment.
func isText(line string) bool {
	for i := range len(line) {
		if line[i] < ' ' && line[i] != '\t' || line[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(line)
}
