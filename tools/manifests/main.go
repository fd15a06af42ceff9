// SPDX-License-Identifier: Apache-2.0

// Command manifests checks the manifests of packaging/kubernetes against the types of the Kubernetes API, and
// against the standards for pods that a namespace can require. It is a module of its own: nothing of it is in
// the programs.
//
// Unknown fields, wrong types and duplicate keys are errors. What only an API server checks, such as the
// format of a name, is not checked.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests FILE...")
		os.Exit(2)
	}
	failed := false
	for _, file := range os.Args[1:] {
		report, err := check(file)
		if err != nil {
			failed = true
			report = err.Error()
		}
		fmt.Printf("%s: %s\n", file, report)
	}
	if failed {
		os.Exit(1)
	}
}

// check reads a file with one manifest. It returns what the standards say of its pods.
func check(file string) (report string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return "", err
	}
	var pod corev1.PodTemplateSpec
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 Deployment":
		var d appsv1.Deployment
		err = decode(text, &d)
		pod = d.Spec.Template
		if err == nil {
			err = selects(d.Spec.Selector, pod)
		}
	case "apps/v1 DaemonSet":
		var d appsv1.DaemonSet
		err = decode(text, &d)
		pod = d.Spec.Template
		if err == nil {
			err = selects(d.Spec.Selector, pod)
		}
	case "batch/v1 Job":
		var j batchv1.Job
		err = decode(text, &j)
		pod = j.Spec.Template
	default:
		err = fmt.Errorf("unknown kind %s %s", kind.APIVersion, kind.Kind)
	}
	if err != nil {
		return "", err
	}
	return restricted(pod)
}

// decode reads as an API server does that is told to be strict: encoding/json would take hostPid for hostPID.
func decode(text []byte, object any) error {
	inJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(inJSON, object)
	return errors.Join(append(strict, err)...)
}

// selects is an error for a pod that is not its controller's own.
func selects(selector *metav1.LabelSelector, pod corev1.PodTemplateSpec) error {
	s, err := metav1.LabelSelectorAsMap(selector)
	if err != nil {
		return err
	}
	if len(s) == 0 {
		return fmt.Errorf("the selector is empty")
	}
	for key, value := range s {
		if pod.Labels[key] != value {
			return fmt.Errorf("the selector wants %s: %s, and the pod has %q", key, value, pod.Labels[key])
		}
	}
	return nil
}

// restricted is an error for a pod that the level "restricted" refuses. A pod with hostPID can't have that
// level: it is checked without.
func restricted(pod corev1.PodTemplateSpec) (report string, err error) {
	report = "restricted"
	if pod.Spec.HostPID {
		report = "restricted but for hostPID"
		pod.Spec.HostPID = false
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return "", err
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	results := evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)
	result := policy.AggregateCheckResults(results)
	if !result.Allowed {
		return "", fmt.Errorf("the level restricted refuses the pod: %s: %s",
			strings.Join(result.ForbiddenReasons, ", "), strings.Join(result.ForbiddenDetails, ", "))
	}
	return report, nil
}
