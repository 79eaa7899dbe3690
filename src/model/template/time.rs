//! The date that a template may print (`strftime_now`), and Python's `strftime` for it.

/// A moment in local time. Whoever renders gives it; nothing here reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Years of the Gregorian calendar.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 60.
    pub second: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl LocalTime {
    /// From seconds since 1970, UTC, and the offset of local time from UTC in seconds.
    pub fn from_unix(seconds: i64, offset: i64) -> Self {
        let local = seconds.saturating_add(offset);
        let days = local.div_euclid(86_400);
        let rest = u32::try_from(local.rem_euclid(86_400)).unwrap_or_default();
        // Civil date from days, after Howard Hinnant.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = u32::try_from(day_of_year - (153 * shifted_month + 2) / 5 + 1).unwrap_or(1);
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let month = u32::try_from(month).unwrap_or(1);
        Self { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }

    /// `datetime.strftime(format)`.
    pub fn strftime(&self, format: &str) -> String {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('-') => match chars.next() {
                    Some(code) => {
                        let text = self.field(code);
                        let trimmed = text.trim_start_matches(['0', ' ']);
                        out.push_str(if trimmed.is_empty() { "0" } else { trimmed });
                    }
                    None => out.push_str("%-"),
                },
                Some(code) => out.push_str(&self.field(code)),
                None => out.push('%'),
            }
        }
        out
    }

    fn field(&self, code: char) -> String {
        let month = MONTHS.get(self.month.saturating_sub(1) as usize).copied().unwrap_or_default();
        let weekday = DAYS.get(self.weekday()).copied().unwrap_or_default();
        let short = |name: &str| name.chars().take(3).collect::<String>();
        let hour12 = if self.hour.is_multiple_of(12) { 12 } else { self.hour % 12 };
        match code {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{hour12:02}"),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'f' => "000000".to_owned(),
            'p' => (if self.hour < 12 { "AM" } else { "PM" }).to_owned(),
            'B' => month.to_owned(),
            'b' | 'h' => short(month),
            'A' => weekday.to_owned(),
            'a' => short(weekday),
            'w' => self.weekday().to_string(),
            'j' => format!("{:03}", self.day_of_year()),
            'F' => self.strftime("%Y-%m-%d"),
            'T' | 'X' => self.strftime("%H:%M:%S"),
            'R' => self.strftime("%H:%M"),
            'D' | 'x' => self.strftime("%m/%d/%y"),
            'c' => self.strftime("%a %b %e %H:%M:%S %Y"),
            'Z' | 'z' => String::new(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            other => format!("%{other}"),
        }
    }

    fn day_of_year(&self) -> u32 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let lengths = [31, 28 + u32::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        lengths.iter().take(self.month.saturating_sub(1) as usize).sum::<u32>() + self.day
    }

    fn weekday(&self) -> usize {
        // Zeller's rule with Sunday as 0.
        const SHIFT: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = if self.month < 3 { self.year - 1 } else { self.year };
        let shift = SHIFT.get(self.month.saturating_sub(1) as usize).copied().unwrap_or_default();
        let sum = year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + shift + i64::from(self.day);
        usize::try_from(sum.rem_euclid(7)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::LocalTime;

    #[test]
    fn dates() {
        let time = LocalTime::from_unix(1_944_987_630, 0);
        assert_eq!(time.strftime("%Y-%m-%d %H:%M:%S"), "2031-08-20 10:20:30");
        assert_eq!(
            time.strftime("%d %b %Y|%-d %B|%A %a|%I %p|%j|%%"),
            "20 Aug 2031|20 August|Wednesday Wed|10 AM|232|%"
        );
        assert_eq!(LocalTime::from_unix(951_782_400, 0).strftime("%F"), "2000-02-29");
        assert_eq!(LocalTime::from_unix(-1, 0).strftime("%F %T"), "1969-12-31 23:59:59");
        assert_eq!(LocalTime::from_unix(0, 3600).strftime("%T"), "01:00:00");
    }
}
