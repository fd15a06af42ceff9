// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Users is a choice of users: a search finds the groups of these. The zero value is no user.
type Users struct {
	kind usersKind
	uid  int // of oneUser, and the one that allButOne leaves out
}

type usersKind int

const (
	noUser usersKind = iota
	oneUser
	allButOne
	everyone
)

// OneUser is the choice of a single user.
func OneUser(uid int) Users { return Users{kind: oneUser, uid: uid} }

// CallingUser is the choice of the user that this process runs as.
func CallingUser() Users { return OneUser(os.Getuid()) }

// OtherUsers is the choice of all but the calling user.
func OtherUsers() Users { return Users{kind: allButOne, uid: os.Getuid()} }

// Everyone is the choice of all users.
func Everyone() Users { return Users{kind: everyone} }

// Include reports whether a user is among them.
func (u Users) Include(uid int) bool {
	switch u.kind {
	case oneUser:
		return uid == u.uid
	case allButOne:
		return uid != u.uid
	}
	return u.kind == everyone
}

// IsEveryone reports whether no user is left out.
func (u Users) IsEveryone() bool { return u.kind == everyone }

// Single is the uid of the only user of a choice. isSingle is false for any other choice.
func (u Users) Single() (uid int, isSingle bool) { return u.uid, u.kind == oneUser }

// CheckVisible refuses a choice that has others than the calling user, but for root.
func (u Users) CheckVisible() error {
	if u != CallingUser() && os.Getuid() != 0 {
		return ErrOthers()
	}
	return nil
}

// ErrOthers: only root sees other users' servers.
func ErrOthers() error {
	return fmt.Errorf("only root may look at the servers of other users: %w", unix.EPERM)
}
