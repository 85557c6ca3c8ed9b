package polyglot

import "slices"

func javaServices() []Service {
	var all []Service
	for _, v := range []string{"17", "21", "25"} {
		java := func(server string, worker Worker, client string, argv ...string) {
			s := Service{
				Name: "java" + v + "-" + server, Runtime: "Java " + v, Framework: server,
				Worker: worker, Client: "HttpURLConnection", Today: Linked,
				Built: []string{"java/" + v + "/bin/java", "java/classes/Peers.class"}, Part: "java-" + v,
				argv: func(p *Place) []string {
					classes := p.built("java/classes") + ":" + p.built("java/classes21") + ":" + p.built("java/lib/*")
					return slices.Concat([]string{p.built("java", v, "bin/java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classes}, argv, []string{client})
				},
			}
			switch client { // which write from threads of their own
			case "client":
				s.Name, s.Client, s.Today, s.By = s.Name+"-client", "java.net.http", Partly, "shim"
			case "jetty":
				s.Name, s.Client, s.Today, s.By = s.Name+"-httpclient", "Jetty's HttpClient", Partly, "shim"
			case "shared":
				s.Name += "-shared"
			}
			if worker == Loop {
				s.Client, s.Today, s.By = "reactor-netty", Unlinked, "shim"
				s.Built = append(s.Built, "java/classes/Reactive.class")
			}
			if worker == VirtualThread && server != "helidon" {
				s.Name += "-virtual"
			}
			if server == "helidon" {
				s.Built, s.Part = append(s.Built, "java/classes21/Helidon.class"), "helidon"
			}
			all = append(all, s)
		}
		for _, client := range []string{"connection", "client"} {
			for _, server := range []string{"jdk", "tomcat", "jetty"} {
				java(server, Thread, client, "Service", server, "pool")
				if v != "17" {
					java(server, VirtualThread, client, "Service", server, "virtual")
				}
			}
		}
		java("jetty", Thread, "jetty", "Service", "jetty", "pool")
		if v != "17" {
			java("jetty", VirtualThread, "jetty", "Service", "jetty", "virtual")
		}
		for _, transport := range []string{"epoll", "nio"} { // of Netty
			java("reactor-"+transport, Loop, "pool", "Reactive", transport)
		}
		java("reactor-epoll", Loop, "shared", "Reactive", "epoll")
		if v != "17" {
			java("helidon", VirtualThread, "connection", "Helidon")
		}
	}
	return all
}
