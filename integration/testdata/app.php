<?php // GET /n/5 asks the backend and redis about number 5.
$n = basename(parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH));
file_get_contents("php://input");
$hello = file_get_contents("http://127.0.0.1:" . getenv("BACKEND") . "/n/$n");
$redis = fsockopen("127.0.0.1", (int) getenv("REDIS"));
fwrite($redis, "*2\r\n$3\r\nGET\r\n$" . strlen("n:$n") . "\r\nn:$n\r\n");
fgets($redis);
fclose($redis);
header("Content-Type: text/plain");
echo $hello;
