package polyglot

// Gems of the distribution: there are no others to be had without rubygems.org.
var (
	rubyPackage    = Need{File: "ruby", Package: "ruby"}
	redisGem       = Need{File: "/usr/share/rubygems-integration/all/specifications/redis-*.gemspec", Package: "ruby-redis"}
	pumaPackage    = Need{File: "puma", Package: "puma"}
	webrickPackage = Need{File: "/usr/share/rubygems-integration/all/specifications/webrick-*.gemspec", Package: "ruby-webrick"}
)

func rubyServices() []Service {
	return []Service{
		{
			Name: "ruby-puma", Runtime: "Ruby", Framework: "Puma", Worker: Thread, Client: "Net::HTTP", Today: Linked,
			Needs: []Need{rubyPackage, redisGem, pumaPackage}, Built: []string{"ruby/config.ru"}, Part: "scripts",
			argv: func(p *Place) []string {
				return []string{p.program(pumaPackage), "-q", "-e", "production", "-b", "tcp://" + p.at(p.Port), "-t", "16:16", "-w", "2", p.built("ruby/config.ru")}
			},
		},
		{
			Name: "ruby-webrick", Runtime: "Ruby", Framework: "WEBrick", Worker: Thread, Client: "Net::HTTP", Today: Linked,
			Needs: []Need{rubyPackage, redisGem, webrickPackage}, Built: []string{"ruby/webrick.rb"}, Part: "scripts",
			argv: func(p *Place) []string { return []string{p.program(rubyPackage), p.built("ruby/webrick.rb")} },
		},
	}
}
