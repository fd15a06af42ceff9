// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// engine stands in for docker, of which test/vm/guest has the real one. A container is a file with its label, of which
// docker takes the last one.
const engine = `#!/bin/sh
for word; do
	case $word in
	mcpscope.id=*) label=$word ;;
	label=*) filter=${word#label=} ;;
	esac
done
cd "$0.containers" || exit
case $1 in
run) echo "$label" >started ;;
ps) grep -l -x -e "$filter" * || : ;;
rm) shift 2 && rm -- "$@" ;;
esac
`

// A server that an engine runs ends with its container, and no other container does. The label that names it is that of
// the place that the server has got, after one that has failed, too.
func TestServerInAContainer(t *testing.T) {
	t.Parallel()
	for name, mostGroups := range map[string]string{"cgroup": "max", "tree after cgroup": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			docker := filepath.Join(t.TempDir(), "docker")
			containers := docker + ".containers"
			for _, err := range []error{
				bed.Write(filepath.Join(w.Dir, "cgroup.max.descendants"), mostGroups),
				escape.WriteProgram(docker, engine),
				os.Mkdir(containers, 0o755),
				os.WriteFile(filepath.Join(containers, "beside"), []byte("mcpscope.id=abcdefgh\n"), 0o644),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if o := w.run(w.mcpscope("run", "--", docker, "run", "-i", "--rm", "IMAGE")); o.Status != 0 {
				t.Errorf("status %v; stderr: %s", o.Status, o.Stderr)
			}
			left, err := os.ReadDir(containers)
			if err != nil || len(left) != 1 || left[0].Name() != "beside" {
				t.Errorf("left: %q, %v", left, err)
			}
			w.clean()
		})
	}
}
