// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// both runs a test against the system manager and against a user's.
func both(t *testing.T, test func(t *testing.T, u User)) {
	for _, u := range []User{Root, Tester} {
		t.Run(u.Name, func(t *testing.T) { test(t, u) })
	}
}

func TestServiceMayMakeGroups(t *testing.T) {
	both(t, func(t *testing.T, u User) {
		unit := Current(t).Start(t, Service{User: u, Env: []string{"A=$b"}, Argv: []string{"sh", "-c",
			`test "$A" = '$b' && mkdir "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/d" && exec sleep 1000`}})
		group, err := unit.Group()
		if err != nil {
			t.Fatal(err)
		}
		pid, err := unit.MainPID()
		if err != nil {
			t.Fatal(err)
		}
		if path, err := groupPath(pid); hierarchy+path != group || err != nil {
			t.Errorf("%d is in %s, %v; not in %s", pid, path, err, group)
		}
		if err := unit.Stop(); err != nil {
			t.Error(err)
		}
		if result, err := unit.Await(patience); result != "success" || err != nil {
			t.Errorf("result %s, %v", result, err)
		}
	})
}

func TestServiceCrashes(t *testing.T) {
	both(t, func(t *testing.T, u User) {
		unit := Current(t).Start(t, Service{User: u, Argv: []string{"sleep", "1000"}})
		if err := unit.Crash(); err != nil {
			t.Fatal(err)
		}
		if result, err := unit.Await(patience); result != "signal" || err != nil {
			t.Errorf("result %s, %v", result, err)
		}
		if err := unit.AwaitRestart(); err == nil {
			t.Error("it came back, with Restart=no")
		}
	})
}

func TestServiceComesBack(t *testing.T) {
	both(t, func(t *testing.T, u User) {
		unit := Current(t).Start(t, Service{User: u, Properties: []string{"Restart=always"}, Argv: []string{"sleep", "1000"}})
		seen := map[int]bool{0: true}
		for _, how := range []func() error{nil, unit.Restart, unit.crashAndComeBack, unit.crashAndComeBack} {
			if how != nil {
				if err := how(); err != nil {
					t.Fatal(err)
				}
			}
			pid, err := unit.MainPID()
			if seen[pid] || err != nil {
				t.Errorf("main pid %d is not new, %v", pid, err)
			}
			seen[pid] = true
		}
	})
}

func (u *Unit) crashAndComeBack() error {
	if err := u.Crash(); err != nil {
		return err
	}
	return u.AwaitRestart()
}

func TestPropertiesReachTheService(t *testing.T) {
	both(t, func(t *testing.T, u User) {
		unit := Current(t).Start(t, Service{User: u, Properties: []string{"KillMode=mixed"}, Argv: []string{"sleep", "1000"}})
		if mode, err := unit.Property("KillMode"); mode != "mixed" || err != nil {
			t.Errorf("KillMode is %s, %v", mode, err)
		}
	})
}

// The other manager: a system service with User=.
func TestSystemServiceOfAUser(t *testing.T) {
	unit := Current(t).Start(t, Service{Properties: []string{"User=tester"}, Argv: []string{"sleep", "1000"}})
	pid, err := unit.MainPID()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &st); st.Uid != uint32(Tester.UID) || err != nil {
		t.Errorf("it runs as %d, %v", st.Uid, err)
	}
}
