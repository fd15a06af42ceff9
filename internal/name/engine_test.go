// SPDX-License-Identifier: Apache-2.0

package name

import (
	"strings"
	"testing"
)

// What stands behind "run" gets the label, and what stands before it asks the same engine.
func TestContainerOf(t *testing.T) {
	const sep = " | " // between arguments
	for _, c := range []struct{ argv, labelled, asked string }{
		{"docker | run | -i | --rm | image", "docker | run | --label | a=b | -i | --rm | image", "docker | ps"},
		{"sudo | -n | -u | me | podman | --root | /x | run | image", "sudo | -n | -u | me | podman | --root | /x | run | --label | a=b | image", "sudo | -n | -u | me | podman | --root | /x | ps"},
		{"timeout | 5 | docker | compose | -f | x.yml | run | --rm | service", "timeout | 5 | docker | compose | -f | x.yml | run | --label | a=b | --rm | service", "docker | ps"},
		{"sh | -c | docker run -i --rm image", "sh | -c | docker run --label a=b -i --rm image", `sh | -c | docker "$@" | sh | ps`},
		{"sh | -c | echo \"docker run\" >&2; # docker run it\nexec docker run x", "sh | -c | echo \"docker run\" >&2; # docker run it\nexec docker run --label a=b x",
			`sh | -c | docker "$@" | sh | ps`},
		{"sh | -c | docker run -d db; exec docker run x", "sh | -c | docker run --label a=b -d db; exec docker run --label a=b x", `sh | -c | docker "$@" | sh | ps`},
		{"sh | -c | docker run -d db; docker -H far run x", "", ""}, // there is no one to ask

		{"docker | exec | -i | container | server", "", ""},
		{"docker | start | -ai | run", "", ""},
		{"echo | docker | run", "", ""},
		{"sh | -c | docker -H $1 run x | sh | far", "", ""},
		{"docker", "", ""},
		{"", "", ""},
	} {
		argv := strings.Split(c.argv, sep)
		got := ContainerOf(argv)
		if got == nil {
			if c.labelled != "" {
				t.Errorf("%s: none", c.argv)
			}
			continue
		}
		if labelled, asked := strings.Join(got.With("--label", "a=b"), sep), strings.Join(got.Asked("ps"), sep); labelled != c.labelled || asked != c.asked {
			t.Errorf("%s:\n\t%s\n\t%s\nwant\n\t%s\n\t%s", c.argv, labelled, asked, c.labelled, c.asked)
		}
		if strings.Join(argv, sep) != c.argv {
			t.Errorf("%s was changed to %q", c.argv, argv)
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
