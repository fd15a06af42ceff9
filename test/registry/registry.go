// SPDX-License-Identifier: Apache-2.0

// Package registry serves packages to npm on loopback.
package registry

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
)

// A Registry has packages, and nothing else.
type Registry struct {
	URL     string
	server  *httptest.Server
	answers map[string][]byte // by decoded path: npm writes the slash of a scope as %2f
	open    atomic.Int64
}

// Serve starts a registry with these tarballs.
func Serve(tarballs ...string) (*Registry, error) {
	r := &Registry{answers: map[string][]byte{}}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.answer))
	r.server.Config.ConnState = r.count
	r.server.Start()
	r.URL = r.server.URL
	for _, file := range tarballs {
		if err := r.add(file); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// Close ends the connections, too.
func (r *Registry) Close() {
	r.server.CloseClientConnections() // Close alone waits for those that are new
	r.server.Close()
}

// Connections counts those that are open. The registry closes none by itself.
func (r *Registry) Connections() int { return int(r.open.Load()) }

func (r *Registry) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		r.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		r.open.Add(-1)
	}
}

func (r *Registry) answer(w http.ResponseWriter, request *http.Request) {
	answer, found := r.answers[request.URL.Path]
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(answer) // npm reports a short file
}

// add reads a tarball, and the description in it.
func (r *Registry) add(file string) error {
	manifest, err := Manifest(file)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(data)
	path := "/" + filepath.Base(file)
	manifest["dist"] = map[string]string{
		"tarball": r.URL + path, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
	name, _ := manifest["name"].(string)
	version, _ := manifest["version"].(string)
	document, err := json.Marshal(map[string]any{
		"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest},
	})
	if err != nil {
		return err
	}
	r.answers[path] = data
	r.answers["/"+name] = document
	return nil
}

// Manifest is the package.json of a tarball.
func Manifest(file string) (manifest map[string]any, err error) {
	text, err := exec.Command("tar", "-xzOf", file, "package/package.json").Output()
	if err != nil {
		return nil, fmt.Errorf("read the package.json of %s: %w", file, err)
	}
	err = json.Unmarshal(text, &manifest)
	return manifest, err
}
