// Command render writes the objects of Tare's Helm chart, or of a directory for Kustomize, as
// plain YAML, by Helm's and Kustomize's own libraries. It is a module of its own, so that only
// who needs that downloads them.
//
//	render chart [VALUES.yaml]     what is installed as "tare" in the namespace "tare"
//	render kustomize DIRECTORY
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// chartDirectory is the chart's, from this module.
const chartDirectory = "../helm/tare"

// plain is what the chart gives by its own values.
const plain = "../kubernetes/base/tare.yaml"

const head = "# Made by `make manifests` of deploy/helm/tare with its own values: change that, or write an overlay.\n"

// blank are lines that templates leave empty.
var blank = regexp.MustCompile(`(?m)^[ ]*\n`)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var text string
	var err error
	switch {
	case len(args) == 2 && args[0] == "kustomize":
		text, err = kustomize(args[1])
	case len(args) == 1 && args[0] == "chart":
		text, err = chart(nil)
		text = head + text
	case len(args) == 2 && args[0] == "chart":
		var values map[string]any
		if values, err = readValues(args[1]); err == nil {
			text, err = chart(values)
		}
	default:
		return errors.New("usage: render chart [VALUES.yaml] | render kustomize DIRECTORY")
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

func readValues(file string) (map[string]any, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return values, nil
}

// chart renders the chart with values over its own.
func chart(values map[string]any) (string, error) {
	c, err := loader.Load(chartDirectory)
	if err != nil {
		return "", err
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "tare", Namespace: "tare", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(context.Background(), c, all)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if text := strings.TrimSpace(files[name]); text != "" && path.Ext(name) == ".yaml" {
			b.WriteString("---\n" + blank.ReplaceAllString(text, "") + "\n")
		}
	}
	return b.String(), nil
}

// kustomize builds a directory as kubectl apply -k does.
func kustomize(dir string) (string, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return "", err
	}
	text, err := objects.AsYaml()
	return string(text), err
}
