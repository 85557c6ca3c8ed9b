package collector

import (
	"fmt"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/loadbalancingexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/basicauthextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/bearertokenauthextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/filterprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/redactionprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/jaegerreceiver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/zipkinreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"

	"github.com/tare-trace/tare/collector/agentreceiver"
	"github.com/tare-trace/tare/collector/internal/bound"
	"github.com/tare-trace/tare/collector/internal/guard"
	"github.com/tare-trace/tare/collector/internal/limit"
	"github.com/tare-trace/tare/collector/keepprocessor"
	"github.com/tare-trace/tare/collector/limitextension"
	"github.com/tare-trace/tare/collector/logexporter"
	"github.com/tare-trace/tare/collector/pageextension"
	"github.com/tare-trace/tare/collector/redactprocessor"
	"github.com/tare-trace/tare/collector/retroextension"
	"github.com/tare-trace/tare/collector/storeexporter"
	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/collector/tracerprocessor"
)

const (
	core    = "go.opentelemetry.io/collector/"
	contrib = "github.com/open-telemetry/opentelemetry-collector-contrib/"
	own     = "github.com/tare-trace/tare"
)

// part is a component's factory and the directory of its module.
type part[F component.Factory] struct {
	factory F
	module  string
}

// Components are all components that a configuration can name. Each call makes new
// factories, because those of some components keep state.
func Components() (otelcol.Factories, error) {
	f := otelcol.Factories{Telemetry: bound.Telemetry()}
	var err error
	f.Receivers, f.ReceiverModules, err = parts([]part[receiver.Factory]{
		{limit.Receivers(bound.Receivers(otlpreceiver.NewFactory(), bound.OTLP, guard.Bounded)), core + "receiver/otlpreceiver"},
		{limit.Receivers(bound.Receivers(zipkinreceiver.NewFactory(), bound.Zipkin, guard.Bounded)), contrib + "receiver/zipkinreceiver"},
		{limit.Receivers(bound.Receivers(jaegerreceiver.NewFactory(), bound.Jaeger, guard.Bounded)), contrib + "receiver/jaegerreceiver"},
		{limit.Receivers(bound.Kafka(guard.Bounded)), contrib + "receiver/kafkareceiver"},
		{agentreceiver.NewFactory(), own},
	}, err)
	f.Processors, f.ProcessorModules, err = parts([]part[processor.Factory]{
		{guard.LimitMemory(memorylimiterprocessor.NewFactory()), core + "processor/memorylimiterprocessor"},
		{batchprocessor.NewFactory(), core + "processor/batchprocessor"},
		{tailsamplingprocessor.NewFactory(), contrib + "processor/tailsamplingprocessor"},
		{redactionprocessor.NewFactory(), contrib + "processor/redactionprocessor"},
		{filterprocessor.NewFactory(), contrib + "processor/filterprocessor"},
		{transformprocessor.NewFactory(), contrib + "processor/transformprocessor"},
		{tracerprocessor.NewFactory(), own},
		{keepprocessor.NewFactory(), own},
		{redactprocessor.NewFactory(), own},
	}, err)
	f.Exporters, f.ExporterModules, err = parts([]part[exporter.Factory]{
		{otlpexporter.NewFactory(), core + "exporter/otlpexporter"},
		{otlphttpexporter.NewFactory(), core + "exporter/otlphttpexporter"},
		{debugexporter.NewFactory(), core + "exporter/debugexporter"},
		{nopexporter.NewFactory(), core + "exporter/nopexporter"},
		{loadbalancingexporter.NewFactory(), contrib + "exporter/loadbalancingexporter"},
		{clickhouseexporter.NewFactory(), contrib + "exporter/clickhouseexporter"},
		{kafkaexporter.NewFactory(), contrib + "exporter/kafkaexporter"},
		{bound.Prometheus(guard.Bounded), contrib + "exporter/prometheusexporter"},
		{storeexporter.NewFactory(), own},
		{logexporter.NewFactory(), own},
	}, err)
	f.Extensions, f.ExtensionModules, err = parts([]part[extension.Factory]{
		{filestorage.NewFactory(), contrib + "extension/storage/filestorage"},
		{guard.LogRefusals(basicauthextension.NewFactory()), contrib + "extension/basicauthextension"},
		{guard.LogRefusals(bearertokenauthextension.NewFactory()), contrib + "extension/bearertokenauthextension"},
		{bound.HealthCheck(guard.Bounded), contrib + "extension/healthcheckextension"},
		{limitextension.NewFactory(), own},
		{storeextension.NewFactory(), own},
		{pageextension.NewFactory(), own},
		{retroextension.NewFactory(), own},
	}, err)
	return f, err
}

// parts makes the maps of one section, or returns the error of an earlier section.
func parts[F component.Factory](list []part[F], before error) (map[component.Type]F, map[component.Type]string, error) {
	if before != nil {
		return nil, nil, before
	}
	factories := make([]F, 0, len(list))
	modules := make(map[component.Type]string, len(list))
	for _, p := range list {
		factories = append(factories, p.factory)
		modules[p.factory.Type()] = p.module + " " + version(p.module)
	}
	byType, err := otelcol.MakeFactoryMap(factories...)
	if err != nil {
		return nil, nil, fmt.Errorf("components: %w", err)
	}
	return byType, modules, nil
}
