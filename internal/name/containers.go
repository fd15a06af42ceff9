// SPDX-License-Identifier: Apache-2.0

package name

// Container engines: a server in a container is called by its image.

var (
	dockerFlags = grammar{
		valued: "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey --url --connection --root --runroot --storage-driver -n --namespace -a --address --cgroup-manager --runtime --identity --tmpdir --module --storage-opt --snapshotter --data-root --conmon --hooks-dir --ssh --volumepath --imagestore",
	}
	// dockerRunFlags lists the flags without a value, for they are few: a
	// value taken for an image could be a secret (-e TOKEN=…).
	dockerRunFlags = grammar{
		plain: `-d --detach -i --interactive -t --tty --rm --init --privileged -P --publish-all --read-only --oom-kill-disable
			--sig-proxy --disable-content-trust -q --quiet --help --use-api-socket --replace --rmi --tls-verify
			--http-proxy --env-host --passwd --read-only-tmpfs --rootfs --unsetenv-all`,
	}
	dockerStartFlags = grammar{valued: "--detach-keys --checkpoint --checkpoint-dir"}
	composeFlags     = grammar{
		valued: `-f --file -p --project-name --profile --env-file --parallel --ansi --progress
			-e --env --env-from-file -l --label --name --publish -u --user -v --volume -w --workdir --entrypoint
			--cap-add --cap-drop --pull --index --scale`,
		dir: "--project-directory",
	}
)

func (c command) docker(args []string) string {
	word, rest := dockerFlags.parse(args).word()
	if word == "container" && len(rest) > 0 {
		word, rest = rest[0], rest[1:]
	}
	switch word {
	case "run", "create":
		image, _ := dockerRunFlags.parse(rest).word()
		return imageName(image)
	case "exec":
		container, _ := dockerRunFlags.parse(rest).word()
		return container
	case "start", "attach":
		container, _ := dockerStartFlags.parse(rest).word()
		return container
	case "compose":
		return c.compose(rest)
	}
	return ""
}

func (c command) compose(args []string) string {
	word, rest := composeFlags.parse(args).word()
	if word != "run" && word != "exec" {
		return ""
	}
	service, _ := composeFlags.parse(rest).word()
	return service
}
