// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"os"
	"path/filepath"
)

// KeptEnv names a directory with programs that were built before; what is not there yet is
// built into it. The tests in a virtual machine have no compilers: the run outside that fills
// the directory has.
const KeptEnv = "ESCAPE_PROGRAMS"

// provide makes a program at path.
func provide(dir, name string, command []string) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	keep := os.Getenv(KeptEnv)
	if keep == "" {
		return compile(path, command)
	}
	kept := filepath.Join(keep, name)
	if _, err := os.Stat(kept); err != nil {
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			return err
		}
		if err := compile(kept, command); err != nil {
			return err
		}
	}
	return os.Symlink(kept, path)
}
