// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"bufio"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
)

// What holds a lock on a file, or on some of its bytes, may have others wait. The locks that an SQLite connection in
// WAL mode holds from its begin to its end have nobody wait.
func TestMayWaitForLocks(t *testing.T) {
	database := fileLock{isShared: true, first: 1073741826, last: 1073742335}
	connection := fileLock{isShared: true, first: 128, last: 128}
	reader := fileLock{isShared: true, first: 124, last: 124}
	writer := fileLock{first: 120, last: 120}
	for name, c := range map[string]struct {
		held heldLocks
		want bool
	}{
		"none":                       {nil, false},
		"a whole file":               {heldLocks{"/a": {{isShared: true, last: math.MaxUint64}}}, true},
		"an idle connection":         {heldLocks{"/a": {database}, "/a-shm": {connection}}, false},
		"a reader":                   {heldLocks{"/a": {database}, "/a-shm": {reader, connection}}, true},
		"a writer":                   {heldLocks{"/a": {database}, "/a-shm": {writer, connection}}, true},
		"a reader without WAL":       {heldLocks{"/a": {database}}, true},
		"WAL of another database":    {heldLocks{"/a": {database}, "/b-shm": {connection}}, true},
		"byte 128 of another file":   {heldLocks{"/a": {connection}}, true},
		"an exclusive lock as large": {heldLocks{"/a-shm": {{first: 128, last: 128}}}, true},
	} {
		if got := c.held.mayBeAwaited(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestLocksOfSQLite asks the real library. The script does one step for each line, and says when it is done.
func TestLocksOfSQLite(t *testing.T) {
	const script = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("pragma journal_mode=" + sys.argv[2])
c.execute("create table t(a)")
for line in sys.stdin:
    c.execute(line).fetchall()
    print("done", flush=True)
`
	if err := exec.Command("python3", "-c", "import sqlite3").Run(); err != nil {
		t.Skip("SKIP: python3 has no sqlite3: ", err)
	}
	for mode, steps := range map[string][]struct{ do, want string }{
		"wal": {
			{"select * from t", ""}, {"begin", ""}, {"select * from t", lock}, {"commit", ""},
			{"begin immediate", lock}, {"insert into t values(1)", lock}, {"commit", ""},
		},
		"delete": {
			{"select * from t", ""}, {"begin", ""}, {"select * from t", lock}, {"commit", ""},
			{"begin immediate", lock}, {"commit", ""},
		},
	} {
		t.Run(mode, func(t *testing.T) {
			client := exec.Command("python3", "-c", script, filepath.Join(t.TempDir(), "a.db"), mode)
			in, err := client.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := client.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = in.Close()
				_ = client.Wait() // it has ended with its stdin
			}()
			answers := bufio.NewReader(out)
			for _, step := range steps {
				if _, err := fmt.Fprintln(in, step.do); err != nil {
					t.Fatal(err)
				}
				if _, err := answers.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				if got := tie(client.Process.Pid, nil); got != step.want {
					t.Errorf("after %q: %q, want %q", step.do, got, step.want)
				}
			}
		})
	}
}
