// SPDX-License-Identifier: Apache-2.0

package group

import (
	"os"
	"testing"
)

// The zero value has no user, not even root: a choice that was forgotten finds nothing.
func TestUsers(t *testing.T) {
	own := os.Getuid()
	other := own + 1
	for _, c := range []struct {
		users                    Users
		hasOwn, hasOther, single bool
	}{
		{Users{}, false, false, false},
		{CallingUser(), true, false, true},
		{OneUser(other), false, true, true},
		{OtherUsers(), false, true, false},
		{Everyone(), true, true, false},
	} {
		_, isSingle := c.users.Single()
		if c.users.Include(own) != c.hasOwn || c.users.Include(other) != c.hasOther || isSingle != c.single {
			t.Errorf("%+v", c)
		}
	}
}
