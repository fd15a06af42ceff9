// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Tree lists the groups below dir with their processes.
func Tree(dir string) string {
	lines := []string{fmt.Sprintf("notes %q", attr(dir, "notes"))}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // removed meanwhile, or a file
		}
		pids, err := GroupPids(path)
		lines = append(lines, fmt.Sprintf("%s: %v", strings.TrimPrefix(path, dir), pids))
		for _, pid := range pids {
			lines = append(lines, "\t"+Describe(pid))
		}
		return err
	})
	return strings.Join(lines, "\n\t")
}
