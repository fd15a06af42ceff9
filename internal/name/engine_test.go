// SPDX-License-Identifier: Apache-2.0

package name

import (
	"strings"
	"testing"
)

// What stands behind "run" gets the label, and what stands before it asks the same engine.
func TestContainerOf(t *testing.T) {
	const sep = " | " // between arguments
	for argv, want := range map[string]string{
		"docker | run | -i | image":                       "docker | run | --label | a=b | -i | image => docker | ps",
		"sudo | -n | podman | --root | /x | run | image":  "sudo | -n | podman | --root | /x | run | --label | a=b | image => sudo | -n | podman | --root | /x | ps",
		"timeout | 5 | docker | compose | run | --rm | s": "timeout | 5 | docker | compose | run | --label | a=b | --rm | s => docker | ps",
		"sh | -c | docker run image":                      `sh | -c | docker run --label a=b image => sh | -c | docker "$@" | sh | ps`,
		"sh | -c | docker run -d db; exec docker run x":   `sh | -c | docker run --label a=b -d db; exec docker run --label a=b x => sh | -c | docker "$@" | sh | ps`,
		"sh | -c | docker run -d db; docker -H far run x": "", // there is no one to ask
		"sh | -c | docker -H $1 run x | sh | far":         "",
		"docker | exec | -i | container | server":         "",
		"echo | docker | run":                             "",
		"docker":                                          "",
		"":                                                "",
	} {
		words, got := strings.Split(argv, sep), ""
		if c := ContainerOf(words); c != nil {
			got = strings.Join(c.With("--label", "a=b"), sep) + " => " + strings.Join(c.Asked("ps"), sep)
		}
		if got != want || strings.Join(words, sep) != argv {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", argv, got, want)
		}
	}
}

// Whatever a command line is, a label is all that it gets, and nothing of it is lost.
func FuzzContainerOf(f *testing.F) {
	f.Add("sudo\x00docker\x00-H\x00x\x00run\x00image")
	f.Add("sh\x00-c\x00cd x && docker run -i \"$@\"; podman ps\x00y")
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x00")
		c := ContainerOf(argv)
		if c == nil {
			return
		}
		labelled := strings.Join(c.With("--label", "a=b"), "\x00")
		bare := strings.Replace(labelled, "\x00--label\x00a=b", "", 1)
		if c.script >= 0 {
			bare = strings.Replace(labelled, " --label a=b", "", 1)
		}
		if n := len(labelled) - len(line); n <= 0 || n%len(" --label a=b") != 0 || c.script < 0 && !strings.Contains(line, "--label") && bare != line {
			t.Errorf("%q became %q", line, labelled)
		}
		if asked := c.Asked("ps"); len(asked) < 2 || asked[len(asked)-1] != "ps" {
			t.Errorf("%q asks by %q", line, asked)
		}
	})
}

// What is done with a container that is there already is told of, and nothing more.
func TestOtherContainer(t *testing.T) {
	for line, want := range map[string]string{
		"docker exec -i c sh": "docker exec", "sudo -n podman start -ai c": "podman start", "env A=1 docker -H x container attach c": "docker attach",
		"docker compose exec s sh": "docker exec", "docker run -i x exec": "", "npx exec": "", "docker ps": "",
	} {
		if got := OtherContainer(strings.Fields(line)); got != want || got != "" && ContainerOf(strings.Fields(line)) != nil {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
