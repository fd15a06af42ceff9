// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"os"
	"testing"
)

// Pipe returns the ends of a pipe, which are closed with the test at the latest.
func Pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		read.Close()
		write.Close()
	})
	return read, write
}
