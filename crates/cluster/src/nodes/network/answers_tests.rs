use super::*;

async fn said(answers: &str, path: &str) -> Result<(u16, String), Reset> {
    let answers: Answers = answers.parse().unwrap();
    let request = http::Request::builder().uri(path).body(Bytes::new()).unwrap();
    let response = answers.handler()(request).await?;
    Ok((response.status().as_u16(), String::from_utf8(response.into_body().to_vec()).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn the_first_line_that_fits_a_path_answers() {
    let answers =
        "/ready 503\n/metrics 200 body up 1\n  /slow 204 after 2s\n/gone reset\n/api/* 404 body no\n* 500";
    for (path, expected) in [
        ("/ready", Ok((503, ""))),
        ("/ready?full", Ok((503, ""))),
        ("/metrics", Ok((200, "up 1"))),
        ("/slow", Ok((204, ""))),
        ("/api/v1/leave", Ok((404, "no"))),
        ("/api", Ok((500, ""))),
        ("/gone", Err(Reset)),
    ] {
        assert_eq!(said(answers, path).await, expected.map(|(code, body)| (code, body.to_owned())), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_answers_take_their_time_and_hanging_ones_for_ever() {
    let start = tokio::time::Instant::now();
    said("/slow 204 after 2s", "/slow").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    let hour = Duration::from_hours(1);
    assert!(tokio::time::timeout(hour, said("/ hang", "/")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn without_a_line_a_pod_tells_about_itself() {
    let (status, body) = said("/other 500", "/").await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap()["path"], "/");
}

#[test]
fn what_is_no_answer_is_refused() {
    for bad in ["ready 503", "/ready", "/ready soon", "/ready 99", "/ready 100", "/ready 200 later"] {
        assert_eq!(bad.parse::<Answers>(), Err(AnswersError::NotALine(bad.to_owned())), "{bad}");
    }
    assert!(matches!("/a 200 after soon".parse::<Answers>(), Err(AnswersError::After(_))));
    assert_eq!("/ 200\n".repeat(MAX_RULES + 1).parse::<Answers>(), Err(AnswersError::TooMany));
}
