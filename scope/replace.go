//go:build linux

package scope

import (
	"os"

	"golang.org/x/sys/unix"
)

// replaceOlder retires the servers of the same name that the same client process has
// started before: a client that reconnects without closing would collect them. Of two that
// start at the same time, one may not see the other yet; but then that one, which can
// be seen before it looks, sees this one, and retires if it is the older.
func (s *supervisor) replaceOlder() {
	all, _ := List(os.Getuid()) // whoever can't be seen stays
	var own *Listed
	for _, l := range all {
		if l.ID == s.group.ident() {
			own = l
		}
	}
	for _, l := range all {
		if own != nil && l != own && l.Key() == own.Key() && (l.State == Running || l.State == Frozen) {
			s.outlive(own, l)
		}
		l.Close()
	}
}

func (s *supervisor) outlive(own, other *Listed) {
	switch own.Started.Compare(other.Started) {
	case 1:
		_ = other.requestStop(AsConfigured) // nobody waits for it
	case -1:
		s.signals <- unix.SIGTERM // as if somebody had asked us
	}
}
