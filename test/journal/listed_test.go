// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"testing"
	"time"
)

// view is what the tests read of `ls --json`.
type view struct {
	ID, Name, State, Unit string
	Supervisor            int `json:"supervisor_pid"`
	Launcher              int `json:"launcher_pid"`
}

// listed is the one server of that name.
func listed(t *testing.T, b backend, name string) view {
	t.Helper()
	var all struct{ Servers []view }
	if err := json.Unmarshal([]byte(b.succeed(t, "ls", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	var found []view
	for _, v := range all.Servers {
		if v.Name == name {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d servers are called %s: %+v", len(found), name, all)
	}
	return found[0]
}

// awaitState asks again and again: what the kernel makes of two SIGKILLs tells no descriptor
// of ours.
func awaitState(t *testing.T, b backend, name, want string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for listed(t, b, name).State != want {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s", name, listed(t, b, name).State)
		}
	}
}
