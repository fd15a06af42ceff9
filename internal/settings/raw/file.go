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

// ReadFile reads a file of settings, if there is one. It returns false where main has to read it: it sets
// more than the usual keys of [defaults], or main would refuse it, and report that. path ends with 0.
func (f *Flags) ReadFile(path uintptr) bool {
	here := unix.AT_FDCWD
	// O_NONBLOCK: a FIFO must not delay a server
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), path, flags, 0, 0, 0)
	if errno != 0 {
		return errno == unix.ENOENT || errno == unix.ENOTDIR
	}
	text, ok := readShort(fd)
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0) // nothing was written
	return ok && f.readSettings(text)
}

// readShort reads a file that is short, and that main would read: see checkOwner of package settings.
func readShort(fd uintptr) (text string, ok bool) {
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

// readSettings reads TOML: comments, tables, and keys of [defaults] in the usual form, a line each.
func (f *Flags) readSettings(text string) bool {
	isInDefaults := false
	seen := keys(0)
	for more := true; more; {
		var line string
		line, text, more = strings.Cut(text, "\n")
		if more {
			line = strings.TrimSuffix(line, "\r")
		}
		before, _, _ := strings.Cut(line, "#")
		word := strings.Trim(before, " \t")
		known := isText(line)
		switch {
		case word == "":
		case word == "[defaults]":
			known = known && seen.add(ofTable)
			isInDefaults = true
		case isServerTable(word):
			isInDefaults = false
		default:
			known = known && isInDefaults && f.readKey(word, &seen)
		}
		if !known {
			return false
		}
	}
	return true
}

// keys are those that were read, a bit each. TOML has each key once, and so each table.
type keys uint8

const (
	ofTable keys = 1 << iota
	eofGrace
	termGrace
	idleFreeze
	idleTimeout
	onClientDeath
	unknown keys = 0
)

// add returns false for a key that was there before, and for one that is unknown.
func (k *keys) add(key keys) bool {
	isNew := key != unknown && *k&key == 0
	*k |= key
	return isNew
}

// readKey reads a line with a key of a server's policy, and a text without escapes.
func (f *Flags) readKey(line string, seen *keys) bool {
	name, value, _ := strings.Cut(line, "=")
	name = strings.TrimRight(name, " \t")
	value = strings.TrimLeft(value, " \t")
	value, begins := strings.CutPrefix(value, `"`)
	value, ends := strings.CutSuffix(value, `"`)
	const plain = "abcdefghijklmnopqrstuvwxyz0123456789"
	isPlain := begins && ends && strings.Trim(value, plain) == ""
	return isPlain && seen.add(keyOf(name)) && f.set(name, value)
}

func keyOf(name string) keys {
	switch name {
	case "eof-grace":
		return eofGrace
	case "term-grace":
		return termGrace
	case "idle-freeze":
		return idleFreeze
	case "idle-timeout":
		return idleTimeout
	case "on-client-death":
		return onClientDeath
	}
	return unknown
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
